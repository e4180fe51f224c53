"""Times, counts and weighs on the machine it runs on. Everything here needs torch; nothing here predicts.

device      which device, and what it is
storage     bytes of tensors, modules and optimizers, each storage once
autograd    what a forward pass keeps for its backward
peak        the most that was live at once in a step, and what it was
flops       FLOPs that really ran, with what could not be counted named
timing      how long a callable takes, and how sure that is
busy        the share of the time in which a device was at work
ceilings    what the device reaches: bandwidth, products, launches; kept once measured
bounds      operators' least times beside their own
profiling   where a step's time goes, operation by operation
comparison  a prediction beside its measurement
"""

"""What is done with the course as a whole: run it, build it, hand it out, work on copies of it."""

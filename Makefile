# Short names for start.py, which sets the course up on the first call.
# On Windows without make: `py start.py run` and so on.
PYTHON ?= python3

.PHONY: help lab run test doctor build check lock

help:            ## this list
	@sed -n 's/^\([a-z-]*\): *## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

lab:             ## JupyterLab on your working copies
	$(PYTHON) start.py lab

run:             ## every notebook, headless, with a report
	$(PYTHON) start.py run

test:            ## the project's own tests
	$(PYTHON) start.py test

doctor:          ## what this machine has and lacks
	$(PYTHON) start.py doctor

build:           ## store the notebooks' outputs, the exercises' public cases and the tables
	$(PYTHON) start.py build

check:           ## say whether anything made is out of date
	$(PYTHON) start.py build --check

lock:            ## choose every package's version anew (needs uv)
	@printf '%s\n' '# Every version that the course is tested with, for Linux, macOS and Windows and Python 3.11 to 3.14.' \
	  '# Made by `make lock` from pyproject.toml; start.py, .ci/run and environment.yml install with it.' > requirements.new
	uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --fork-strategy fewest \
	  --no-annotate --no-header --quiet >> requirements.new
	mv requirements.new requirements.lock

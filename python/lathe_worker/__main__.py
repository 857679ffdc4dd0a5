"""`python -m lathe_worker`: serve one subject over standard input and output."""

from lathe_worker.worker import main

main()

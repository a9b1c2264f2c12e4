/* fuzz_bad.c - only a name: the fuzz script beside it is not a real one, either. */

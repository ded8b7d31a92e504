"""The Python clients of the trial, one module each: the client's own surface, under the names of the steps."""

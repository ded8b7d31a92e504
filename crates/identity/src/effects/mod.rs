//! What a program among the arguments would do: SQL, shell, HTTP requests, file paths. It does not decide anything.

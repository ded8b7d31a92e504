-- Somebody may come first in the meantime.
on conflict (key_digest) do nothing

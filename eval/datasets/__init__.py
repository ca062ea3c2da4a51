"""Source conversations: loaders of the official formats, and a registry with licences and pinned digests."""

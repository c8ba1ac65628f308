"""How long an idle HTTP connection is kept: by a client always clearly shorter than by a server.

Where both keep it equally long, a server closes a connection at the moment its client writes to
it, and a healthy program looks like one that is away.
"""

SERVER_KEEP_ALIVE_SECONDS = 75
"""By the servers of both planes, whose clients call every second to every few seconds."""
CLIENT_KEEP_ALIVE_SECONDS = 15.0
"""By clients of our own servers: above the 5 s of the read-backs, well below what servers and the
usual proxies before them keep."""
FOREIGN_KEEP_ALIVE_SECONDS = 2.0
"""By clients of servers that are not ours: uvicorn, which vLLM and SGLang use, closes after 5 s."""

"""Connections kept for reuse, and the carrying of one exchange over one of them.

There is no limit to wait at: whoever sends gets an idle connection or a new one, so there are never more sockets than
requests in flight at once, and waiting for a socket cannot end up in a latency.
"""

import collections

from tokenswarm.collector import Collector, now_ns
from tokenswarm.connection import Connection
from tokenswarm.errors import End
from tokenswarm.exchange import Exchange, Limits
from tokenswarm.route import ConnectError, Route, connect

MOST_RECONNECTS = 2  # of a request: after a reused connection, and after one that waited for a stalled process


class Pool:
    """The connections of one process. `fresh` closes each after its answer."""

    def __init__(self, collector: Collector, *, fresh: bool = False) -> None:
        self.fresh = fresh
        self.carried: dict[Exchange, Connection] = {}  # in flight
        self._collector = collector
        self._idle: dict[Route, list[Connection]] = collections.defaultdict(list)

    def carry(self, exchange: Exchange, route: Route) -> None:
        """Send `exchange` over `route`. Returns at its end, whatever that is; raises only what stops this greenlet.

        A reused connection that turns out closed before any byte of an answer costs no request: llama.cpp closes after
        each answer although it promised to keep the connection. So does a new one that had to wait for this process for a
        second or more (a core taken away): servers close those too. The exchange is sent again on a new one, and says so.
        """
        exchange.sent_ns = now_ns()  # of the attempt, until a connection has a better one
        try:
            connection = self._take(route, exchange.limits)
            self._carry_on(connection, exchange)
            while (
                exchange.end is End.RESET and connection.lost_before_answer and exchange.reconnected < MOST_RECONNECTS
            ):
                exchange.reopen()
                connection = self._open(route, exchange.limits)
                self._carry_on(connection, exchange)
        except ConnectError as error:
            exchange.finish(End.CONNECT_FAILED, now_ns(), str(error))
        except BaseException:
            exchange.finish(End.CANCELLED, now_ns())
            raise

    def _carry_on(self, connection: Connection, exchange: Exchange) -> None:
        self.carried[exchange] = connection
        try:
            connection.send(exchange)
            exchange.done.wait()
        except BaseException:
            connection.abandon(End.CANCELLED, None)
            raise
        finally:
            del self.carried[exchange]
        self.give_back(connection)

    def _take(self, route: Route, limits: Limits) -> Connection:
        idle = self._idle[route]
        while idle:
            connection = idle.pop()
            if connection.alive():
                return connection
        return self._open(route, limits)

    def _open(self, route: Route, limits: Limits) -> Connection:
        """A new connection. Where connecting has no limit of its own, that of the whole answer holds for it too."""
        limit_s = limits.total_s if limits.connect_s is None else limits.connect_s
        return Connection(route, connect(route, limit_s), self._collector)

    def give_back(self, connection: Connection) -> None:
        if self.fresh:
            connection.close()
        elif connection.open:
            self._idle[connection.route].append(connection)

    def close(self) -> None:
        """Close what is idle."""
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()

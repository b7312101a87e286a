"""Closed-loop chat users: `locust -f locustfiles/chat.py --host http://host:8000/v1`, with a scenario or by hand."""

from locust import events, task

from tokenswarm.users import ChatUser
from tokenswarm.wiring import register

register(events)


class Chat(ChatUser):
    """Each request its own prompt; the next one when the answer has ended."""

    @task
    def chat(self) -> None:
        self.ask()

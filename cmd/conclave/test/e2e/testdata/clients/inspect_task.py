"""A team under inspect_ai: inspect eval inspect_task.py --model openai-api/conclave/conclave"""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool


@tool
def look():
    async def execute(at: str) -> str:
        """Looks.

        Args:
            at: The place.
        """
        return "a cat"

    return execute


@task
def team():
    samples = [Sample("What is the answer, asks inspect?", target="42")]
    return Task(dataset=samples, solver=generate(), scorer=match(location="any"))


@task
def tools():
    samples = [Sample("What is at the door, asks inspect?", target="cat")]
    return Task(dataset=samples, solver=[use_tools(look()), generate()], scorer=match(location="any"))

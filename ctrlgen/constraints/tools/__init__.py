"""Tool calls.

formats.py       how models write calls, read from the folder constraints/tool_calls/
tool.py          tools, from lists in the manner of OpenAI, Python functions and Pydantic models
python_types.py  parameters whose types are those of Python
tool_calls.py    ToolCalls, the specification
"""

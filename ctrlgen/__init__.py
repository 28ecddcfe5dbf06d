"""ctrlgen: what a language model may say, token by token, exactly and fast.

>>> import ctrlgen as cg
>>> cg.Choice(["yes", "no"])
Choice(['yes', 'no'])

Names are loaded when they are first used: importing ctrlgen imports neither torch, transformers nor numba.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlgen.constraint import DEAD as DEAD
    from ctrlgen.constraint import Constraint as Constraint
    from ctrlgen.constraint import Specification as Specification
    from ctrlgen.constraints.choice import Choice as Choice
    from ctrlgen.constraints.copy import Copy as Copy
    from ctrlgen.constraints.copy import Span as Span
    from ctrlgen.constraints.copy_tokens import CopyTokens as CopyTokens
    from ctrlgen.constraints.dispatch import Dispatch as Dispatch
    from ctrlgen.constraints.free import EOS as EOS
    from ctrlgen.constraints.free import Free as Free
    from ctrlgen.constraints.free import Token as Token
    from ctrlgen.constraints.grammar import Grammar as Grammar
    from ctrlgen.constraints.json_schema import JsonSchema as JsonSchema
    from ctrlgen.constraints.package_names import PackageNames as PackageNames
    from ctrlgen.constraints.parts import Parts as Parts
    from ctrlgen.constraints.quote import Quote as Quote
    from ctrlgen.constraints.regex import Regex as Regex
    from ctrlgen.constraints.template import Template as Template
    from ctrlgen.constraints.thinking import Thinking as Thinking
    from ctrlgen.constraints.tools.tool_calls import Call as Call
    from ctrlgen.constraints.tools.tool_calls import Calls as Calls
    from ctrlgen.constraints.tools.tool_calls import ToolCalls as ToolCalls
    from ctrlgen.engine.batch import MaskEngine as MaskEngine
    from ctrlgen.errors import BudgetError as BudgetError
    from ctrlgen.errors import ComplexityError as ComplexityError
    from ctrlgen.errors import CtrlgenError as CtrlgenError
    from ctrlgen.errors import DeadEndError as DeadEndError
    from ctrlgen.errors import GrammarError as GrammarError
    from ctrlgen.errors import InputError as InputError
    from ctrlgen.errors import ModelError as ModelError
    from ctrlgen.errors import RegexError as RegexError
    from ctrlgen.errors import RequestError as RequestError
    from ctrlgen.errors import SchemaError as SchemaError
    from ctrlgen.errors import SpecificationError as SpecificationError
    from ctrlgen.errors import UnsatisfiableError as UnsatisfiableError
    from ctrlgen.errors import VocabularyError as VocabularyError
    from ctrlgen.flows.arithmetic import arithmetic as arithmetic
    from ctrlgen.flows.blockwise import best_of_blocks as best_of_blocks
    from ctrlgen.flows.draft import Draft as Draft
    from ctrlgen.flows.draft import Drafted as Drafted
    from ctrlgen.flows.draft import draft_then_constrain as draft_then_constrain
    from ctrlgen.flows.generate import Result as Result
    from ctrlgen.flows.generate import generate as generate
    from ctrlgen.flows.guarded import guarded as guarded
    from ctrlgen.flows.parallel_calls import call_in_parallel as call_in_parallel
    from ctrlgen.flows.rejection import sample_exactly as sample_exactly
    from ctrlgen.flows.retrieve import retrieve as retrieve
    from ctrlgen.guard.package_guard import PackageGuard as PackageGuard
    from ctrlgen.hmm.attribute import Attribute as Attribute
    from ctrlgen.hmm.deco_g import DecoG as DecoG
    from ctrlgen.hmm.model import HMM as HMM
    from ctrlgen.hmm.trace import Trace as Trace
    from ctrlgen.index.name_index import NameIndex as NameIndex
    from ctrlgen.index.token_index import TokenIndex as TokenIndex
    from ctrlgen.leaving import Brake as Brake
    from ctrlgen.leaving import Leaving as Leaving
    from ctrlgen.processor import ControlProcessor as ControlProcessor
    from ctrlgen.steering.anchored import Anchored as Anchored
    from ctrlgen.steering.contexts import PMI as PMI
    from ctrlgen.steering.contexts import ClassifierFree as ClassifierFree
    from ctrlgen.steering.contexts import ContextAware as ContextAware
    from ctrlgen.steering.contrastive import Contrastive as Contrastive
    from ctrlgen.steering.experts import DExperts as DExperts
    from ctrlgen.steering.gedi import GeDi as GeDi
    from ctrlgen.steering.layerwise import DoLa as DoLa
    from ctrlgen.steering.layerwise import FocusTemperature as FocusTemperature
    from ctrlgen.steering.maximin import RMOD as RMOD
    from ctrlgen.steering.mixture import MOD as MOD
    from ctrlgen.steering.mixture import MPG as MPG
    from ctrlgen.steering.opposite import ACD as ACD
    from ctrlgen.steering.opposite import OppositePrompts as OppositePrompts
    from ctrlgen.steering.protocol import Steerer as Steerer
    from ctrlgen.steering.repetition import FSD as FSD
    from ctrlgen.steering.repetition import Momentum as Momentum
    from ctrlgen.steering.reranking import AdaDec as AdaDec
    from ctrlgen.steering.reward import ARGS as ARGS
    from ctrlgen.steering.reward import FUDGE as FUDGE
    from ctrlgen.steering.reward import RAD as RAD
    from ctrlgen.steering.reward_model import Scorer as Scorer
    from ctrlgen.steering.rewards import RewardFunction as RewardFunction
    from ctrlgen.steering.rewards import RewardModel as RewardModel
    from ctrlgen.steering.simplex import BestOfK as BestOfK
    from ctrlgen.steering.simplex import Bregman as Bregman
    from ctrlgen.steering.source import Source as Source
    from ctrlgen.vocabulary import Vocabulary as Vocabulary

_HOME = {
    "ACD": "steering.opposite",
    "ARGS": "steering.reward",
    "AdaDec": "steering.reranking",
    "Anchored": "steering.anchored",
    "Attribute": "hmm.attribute",
    "BestOfK": "steering.simplex",
    "Brake": "leaving",
    "Bregman": "steering.simplex",
    "BudgetError": "errors",
    "Call": "constraints.tools.tool_calls",
    "Calls": "constraints.tools.tool_calls",
    "Choice": "constraints.choice",
    "ClassifierFree": "steering.contexts",
    "ComplexityError": "errors",
    "Constraint": "constraint",
    "ContextAware": "steering.contexts",
    "Contrastive": "steering.contrastive",
    "ControlProcessor": "processor",
    "Copy": "constraints.copy",
    "CopyTokens": "constraints.copy_tokens",
    "CtrlgenError": "errors",
    "DEAD": "constraint",
    "DExperts": "steering.experts",
    "DeadEndError": "errors",
    "DecoG": "hmm.deco_g",
    "Dispatch": "constraints.dispatch",
    "DoLa": "steering.layerwise",
    "Draft": "flows.draft",
    "Drafted": "flows.draft",
    "EOS": "constraints.free",
    "FSD": "steering.repetition",
    "FUDGE": "steering.reward",
    "FocusTemperature": "steering.layerwise",
    "Free": "constraints.free",
    "GeDi": "steering.gedi",
    "Grammar": "constraints.grammar",
    "GrammarError": "errors",
    "HMM": "hmm.model",
    "InputError": "errors",
    "JsonSchema": "constraints.json_schema",
    "Leaving": "leaving",
    "MOD": "steering.mixture",
    "MPG": "steering.mixture",
    "MaskEngine": "engine.batch",
    "ModelError": "errors",
    "Momentum": "steering.repetition",
    "NameIndex": "index.name_index",
    "OppositePrompts": "steering.opposite",
    "PMI": "steering.contexts",
    "PackageGuard": "guard.package_guard",
    "PackageNames": "constraints.package_names",
    "Parts": "constraints.parts",
    "Quote": "constraints.quote",
    "RAD": "steering.reward",
    "RMOD": "steering.maximin",
    "Regex": "constraints.regex",
    "RegexError": "errors",
    "RequestError": "errors",
    "Result": "flows.generate",
    "RewardFunction": "steering.rewards",
    "RewardModel": "steering.rewards",
    "SchemaError": "errors",
    "Scorer": "steering.reward_model",
    "Source": "steering.source",
    "Span": "constraints.copy",
    "Specification": "constraint",
    "SpecificationError": "errors",
    "Steerer": "steering.protocol",
    "Template": "constraints.template",
    "Thinking": "constraints.thinking",
    "Token": "constraints.free",
    "TokenIndex": "index.token_index",
    "ToolCalls": "constraints.tools.tool_calls",
    "Trace": "hmm.trace",
    "UnsatisfiableError": "errors",
    "Vocabulary": "vocabulary",
    "VocabularyError": "errors",
    "arithmetic": "flows.arithmetic",
    "best_of_blocks": "flows.blockwise",
    "call_in_parallel": "flows.parallel_calls",
    "draft_then_constrain": "flows.draft",
    "generate": "flows.generate",
    "guarded": "flows.guarded",
    "retrieve": "flows.retrieve",
    "sample_exactly": "flows.rejection",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ctrlgen' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ctrlgen.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})

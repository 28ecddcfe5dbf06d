"""Constraints on the engines people serve with: what a request asks for as JSON, and an adapter for each engine."""

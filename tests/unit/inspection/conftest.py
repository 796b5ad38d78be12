"""Traces made by hand, and a browser to see pages with."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for browser.py and traces.py
from browser import browser as browser
from traces import traced as traced

import asyncio as asyncio
import difflib as difflib
import logging as logging

import asyncio as asyncio
import logging as logging

"""What admin and API share beside their own libraries: who may do what, who did it, and which requests are refused."""

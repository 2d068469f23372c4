"""How do a user's files become the JSON text that the engine reads?"""

"""`python -m importledger_client` is importbook."""

from importledger_client.commands.main import main

main()

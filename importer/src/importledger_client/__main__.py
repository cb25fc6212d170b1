"""`python -m importledger_client` runs importbook."""

from importledger_client.commands.main import main

main()

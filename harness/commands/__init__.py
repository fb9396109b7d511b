"""What the commands of `bench` do, one file each; `cli.py` names them."""

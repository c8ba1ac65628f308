"""Settings of the control plane: the environment (`TRIMTAB_*`) and a TOML file. The only reader."""

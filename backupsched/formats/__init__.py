"""How pages write dates and times: `FORMAT_MODULE_PATH`."""

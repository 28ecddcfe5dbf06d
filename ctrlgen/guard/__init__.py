"""Package names in free text: commands that install are found as they are written, and name only what there is."""

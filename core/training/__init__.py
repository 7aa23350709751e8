"""What every training loop needs: an optimizer, and the state that a resumed run reads."""

"""Text of other files in pieces that a prompt can hold, each tokenised once."""

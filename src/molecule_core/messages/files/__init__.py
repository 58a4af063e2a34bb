"""Files in messages: uploads, references and who may read them."""

package bare // want

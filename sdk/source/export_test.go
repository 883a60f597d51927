package source

// Config is for options that tests make of others.
type Config = config

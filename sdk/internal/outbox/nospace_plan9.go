package outbox

// noSpace is empty: the system has no such error, and a full disk fails the outbox.
var noSpace []error

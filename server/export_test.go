package server

// RetireIdle looks for idle producers at once, which the server does once a minute.
func (s *Server) RetireIdle() { s.broker.RetireIdle() }

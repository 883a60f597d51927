package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// confirmed asks the question and reports whether the answer was yes.
func confirmed(w io.Writer, in *bufio.Reader, question string) (bool, error) {
	fmt.Fprint(w, question+" Type yes: ")
	answer, err := in.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(w) // the question stands in the last line
		return false, fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(answer) == "yes", nil
}

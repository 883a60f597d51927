package catalog

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/quoin-io/quoin/server/internal/planted"
)

const (
	// MaxTopicName bounds a topic's name, in bytes. Names are also directory names and
	// names of Kafka topics, hence the bound and the alphabet of Kafka.
	MaxTopicName = 249
	// MaxProducerName bounds a producer's name, in bytes.
	MaxProducerName = 255
)

// CheckTopicName returns nil or a *NameError. A topic name has 1 to [MaxTopicName] bytes
// of a-z, A-Z, 0-9, '.', '_' and '-', and is neither "." nor "..".
func CheckTopicName(name string) error {
	switch {
	case name == "":
		return nameError("topic", name, "is empty")
	case len(name) > MaxTopicName:
		return nameError("topic", name, tooLong(len(name), MaxTopicName))
	case name == "." || name == "..":
		return nameError("topic", name, "is a directory")
	}
	for i := 0; i < len(name); i++ {
		if !topicByte(name[i]) {
			return nameError("topic", name, "byte "+strconv.Itoa(i)+" is not one of a-z A-Z 0-9 . _ -")
		}
	}
	return nil
}

// CheckProducerName returns nil or a *NameError. A producer name has 1 to
// [MaxProducerName] bytes of valid UTF-8 without control characters.
func CheckProducerName(name string) error {
	switch {
	case planted.NamesUnchecked:
		return nil
	case name == "":
		return nameError("producer", name, "is empty")
	case len(name) > MaxProducerName:
		return nameError("producer", name, tooLong(len(name), MaxProducerName))
	case !utf8.ValidString(name):
		return nameError("producer", name, "is not valid UTF-8")
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return nameError("producer", name, "has a control character at byte "+strconv.Itoa(i))
		}
	}
	return nil
}

func topicByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '.' || c == '_' || c == '-'
}

func tooLong(n, limit int) string {
	return "has " + strconv.Itoa(n) + " bytes, the limit is " + strconv.Itoa(limit)
}

// nameError shortens the name: it came from outside and goes into logs.
func nameError(kind, name, reason string) error {
	const shown = 64
	if len(name) > shown {
		name = name[:shown] + "..."
	}
	return &NameError{Kind: kind, Name: name, Reason: reason}
}

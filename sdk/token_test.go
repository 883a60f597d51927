package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unique"

	"github.com/quoin-io/quoin/wire"
)

// tokenKey is made of letters, so that a search for it finds it in any text.
var tokenKey = wire.Secret([]byte("KEYKEYKEYKEYKEY!"))

func someToken() Token {
	return Token{topic: "orders", topicID: [16]byte{1, 2, 3, 15: 16}, partition: 3, producerID: 1 << 40, epoch: 7,
		first: 1 << 33, records: 12, digest: 0xfeedfacecafebeef, key: unique.Make(string(tokenKey[:]))}
}

func TestTokenGoesThroughItsText(t *testing.T) {
	longest := someToken()
	longest.topic = strings.Repeat("n", maxTokenName)
	unnamed := someToken()
	unnamed.topic, unnamed.first, unnamed.records = "", 0, 1
	for _, want := range []Token{someToken(), longest, unnamed} {
		text := want.String()
		got, err := ParseToken(text)
		if err != nil || got != want || len(text) > maxTokenText || len(text) > 450 {
			t.Errorf("%v came back as %v, %v", want, got, err)
		}
	}
	token := someToken()
	if token.Topic() != "orders" || token.TopicID()[15] != 16 || token.Partition() != 3 || token.ProducerID() != 1<<40 ||
		token.Epoch() != 7 || token.First() != 1<<33 || token.Last() != 1<<33+11 || token.IsZero() {
		t.Errorf("%v", token)
	}
}

// TestTokenIsFrozen: tokens are stored, and must be read for ever.
func TestTokenIsFrozen(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "token.golden"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimSpace(string(golden))
	if got := someToken().String(); got != text {
		t.Errorf("got  %s\nwant %s", got, text)
	}
	if got, err := ParseToken(text); err != nil || got != someToken() {
		t.Errorf("read as %v, %v", got, err)
	}
}

func TestTokenDoesNotShowItsKey(t *testing.T) {
	token := someToken()
	unknown := &OutcomeUnknown{Cause: ErrDeliveryTimeout, token: &token}
	hidden := struct{ token Token }{token} // package fmt cannot call methods of it
	listed := []Abandoned{{Token: token}}
	event := Event{Kind: EventSettled, Token: token}
	texts := map[string]string{"error": unknown.Error(), "GoString": token.GoString()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for name, value := range map[string]any{"token": token, "pointer": &token, "unknown": unknown, "value of unknown": *unknown,
			"hidden": hidden, "listed": listed, "event": event} {
			texts[name+" by "+verb] = fmt.Sprintf(verb, value)
		}
	}
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("m", "token", token, "pointer", &token, "unknown", unknown, "listed", listed, "event", event)
	}
	texts["slog"] = log.String()
	encoded, err := json.Marshal([]any{token, event, listed})
	if err != nil {
		t.Fatal(err)
	}
	texts["JSON"] = string(encoded)
	ways := []string{string(tokenKey[:]), strings.TrimSuffix(fmt.Sprint([]byte(tokenKey[:])), "]")[1:], fmt.Sprintf("%x", tokenKey[:]),
		tokenText.EncodeToString(tokenKey[1:13]), tokenPrefix, "0x4b, 0x45"}
	for name, text := range texts {
		for _, way := range ways {
			if strings.Contains(strings.ToLower(text), strings.ToLower(way)) {
				t.Errorf("%s shows the key: %s", name, text)
			}
		}
	}
	for _, word := range []string{"orders", "partition 3", "epoch 7"} {
		if !strings.Contains(texts["token by %v"], word) {
			t.Errorf("%q is missing in %s", word, texts["token by %v"])
		}
	}
}

func TestWhatIsNoToken(t *testing.T) {
	text := someToken().String()
	bad := someToken()
	bad.records = 0
	negative := someToken()
	negative.first = -1
	over := someToken()
	over.first = 1<<63 - 2
	nobody := someToken()
	nobody.producerID = 0
	binary := someToken()
	binary.topic = "\xff"
	tests := map[string]string{
		"empty":                     "",
		"something else":            "hello",
		"another version":           strings.Replace(text, "qt1.", "qt2.", 1),
		"cut in its prefix":         text[:3],
		"nothing behind the prefix": text[:4],
		"cut short":                 text[:len(text)-1],
		"cut very short":            text[:20],
		"longer":                    text + "A",
		"far too long":              text + strings.Repeat("A", 1<<20),
		"a changed letter":          text[:30] + "_" + text[31:],
		"a letter that is none":     text[:30] + "+" + text[31:],
		"a line end":                text[:30] + "\n" + text[30:],
		"blanks around it":          " " + text,
		"no records":                bad.String(),
		"a negative sequence":       negative.String(),
		"sequences that overflow":   over.String(),
		"no producer":               nobody.String(),
		"a name that is no text":    binary.String(),
	}
	for name, text := range tests {
		got, err := ParseToken(text)
		if !errors.Is(err, ErrInvalidToken) || !got.IsZero() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if err != nil && len(text) > 8 && strings.Contains(err.Error(), text[4:]) {
			t.Errorf("%s: the error repeats the text", name)
		}
	}
	if Token.String(Token{}) != "" || fmt.Sprint(Token{}) != "token(none)" || (Token{}).LogValue().String() != "none" {
		t.Errorf("the zero token is shown as %q and %v", Token.String(Token{}), Token{})
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(someToken().String())
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err != nil {
			if !errors.Is(err, ErrInvalidToken) || !token.IsZero() {
				t.Fatalf("%v, %v", token, err)
			}
			return
		}
		if token.IsZero() || token.String() != text || token.Last() < token.First() {
			t.Fatalf("%q is %v, whose text is %q", text, token, token.String())
		}
	})
}

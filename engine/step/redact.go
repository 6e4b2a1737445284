package step

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// redact takes the secrets out of text.
func (p Ports) redact(text []byte) []byte {
	if p.Redact == nil {
		return text
	}
	return p.Redact(text)
}

// redactJSON takes the secrets out of the values of a document of ours that are
// strings. It is a document afterwards, too, with the same names and numbers:
// also if a secret is made of what means something in JSON.
func (p Ports) redactJSON(document []byte) ([]byte, error) {
	if p.Redact == nil {
		return document, nil
	}
	return p.redactStrings(document, false)
}

// redactStrings takes the secrets out of the strings of a document; of one that a
// model wrote, which may have them anywhere, out of all there is.
func (p Ports) redactStrings(document []byte, all bool) ([]byte, error) {
	between := func(text []byte) []byte { return text }
	if all {
		between = p.redact
	}
	var clean bytes.Buffer
	for rest := document; ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			clean.Write(between(rest))
			return clean.Bytes(), nil
		}
		end := start + literal(rest[start:])
		clean.Write(between(rest[:start]))
		said := rest[start:end]
		rest = rest[end:]
		if all || !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")) {
			var err error
			if said, err = p.redactString(said); err != nil {
				return nil, err
			}
		}
		clean.Write(said)
	}
}

// literal is the length of the JSON string at the beginning of text.
func literal(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// redactString takes the secrets out of one JSON string. A document that it
// holds, as the arguments of a tool call, is taken as one: its strings may be
// escaped as no encoder of ours does it.
func (p Ports) redactString(quoted []byte) ([]byte, error) {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return nil, fmt.Errorf("taking secrets out of a string: %w", err)
	}
	clean := []byte(text)
	if isDocument(clean) {
		var err error
		if clean, err = p.redactStrings(clean, true); err != nil {
			return nil, err
		}
	} else {
		clean = p.redact(clean)
	}
	if string(clean) == text {
		return quoted, nil
	}
	return json.Marshal(string(clean))
}

// isDocument reports whether text is a JSON document with strings in it.
func isDocument(text []byte) bool {
	start := bytes.TrimLeft(text, " \t\r\n")
	return len(start) > 0 && bytes.IndexByte([]byte(`{["`), start[0]) >= 0 && json.Valid(text)
}

// redactLines takes the secrets out of lines.
func (p Ports) redactLines(lines []line) ([]line, error) {
	if p.Redact == nil {
		return lines, nil
	}
	clean := make([]line, len(lines))
	for i, l := range lines {
		data, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		if data, err = p.redactJSON(data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &clean[i]); err != nil {
			return nil, fmt.Errorf("taking secrets out of a %s: %w", l.Kind, err)
		}
	}
	return clean, nil
}

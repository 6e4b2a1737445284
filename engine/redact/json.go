package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// JSON applies clean to the string values of a JSON document that conclave
// wrote. The result is a document with the same keys and numbers, even if a secret
// contains JSON syntax.
func JSON(document []byte, clean func([]byte) []byte) ([]byte, error) {
	return cleaner(clean).document(document, false)
}

type cleaner func([]byte) []byte

// document cleans the string values of a document. With whole, it also cleans keys and
// numbers, because a model may write a secret there.
func (c cleaner) document(document []byte, whole bool) ([]byte, error) {
	between := func(data []byte) []byte { return data }
	if whole {
		between = c
	}
	var clean bytes.Buffer
	for rest := document; ; {
		start := bytes.IndexByte(rest, '"')
		if start < 0 {
			clean.Write(between(rest))
			return clean.Bytes(), nil
		}
		end := start + stringLength(rest[start:])
		clean.Write(between(rest[:start]))
		literal := rest[start:end]
		rest = rest[end:]
		if key := bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(":")); whole || !key {
			var err error
			if literal, err = c.literal(literal); err != nil {
				return nil, err
			}
		}
		clean.Write(literal)
	}
}

// stringLength returns the length of the JSON string at the beginning of data.
func stringLength(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

// literal cleans one JSON string. If the string holds a document, such as the arguments of a
// tool call, it is cleaned as a document, since its escapes may be unusual.
func (c cleaner) literal(quoted []byte) ([]byte, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, fmt.Errorf("redacting a string: %w", err)
	}
	clean := []byte(s)
	if isDocument(clean) {
		var err error
		if clean, err = c.document(clean, true); err != nil {
			return nil, err
		}
	} else {
		clean = c(clean)
	}
	if string(clean) == s {
		return quoted, nil
	}
	return json.Marshal(string(clean))
}

// isDocument reports whether data is a JSON document that can contain strings.
func isDocument(data []byte) bool {
	start := bytes.TrimLeft(data, " \t\r\n")
	return len(start) > 0 && bytes.IndexByte([]byte(`{["`), start[0]) >= 0 && json.Valid(data)
}

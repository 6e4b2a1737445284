package step

import (
	"encoding/json"
	"fmt"

	"conclave/engine/redact"
)

func (p Ports) redact(data []byte) []byte {
	if p.Redact == nil {
		return data
	}
	return p.Redact(data)
}

// redactJSON removes secrets from the string values of a document.
func (p Ports) redactJSON(document []byte) ([]byte, error) {
	if p.Redact == nil {
		return document, nil
	}
	return redact.JSON(document, p.Redact)
}

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
			return nil, fmt.Errorf("redacting a %s: %w", l.Kind, err)
		}
	}
	return clean, nil
}

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Content is the content of a message: its texts, joined by line breaks, and the kinds of its
// attachments, which are image or document.
type Content struct {
	Text        string
	Attachments []string
}

// MarshalJSON writes the text alone.
func (c Content) MarshalJSON() ([]byte, error) { return json.Marshal(c.Text) }

// UnmarshalJSON accepts a string, null, or the parts of any of the three protocols.
func (c *Content) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '[' {
		if json.Unmarshal(data, &c.Text) != nil { // null leaves it empty
			return &ContentError{Type: "no text and no list of parts"}
		}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(data, &parts); err != nil {
		return &ContentError{Type: "a part that is no object of its protocol"}
	}
	var texts []string
	for _, p := range parts {
		text, attached, err := p.read()
		if err != nil {
			return err
		}
		if text != nil {
			texts = append(texts, *text)
		}
		if attached != "" {
			c.Attachments = append(c.Attachments, attached)
		}
	}
	c.Text = strings.Join(texts, "\n")
	return nil
}

// ContentError is the error for a part that no team can read.
type ContentError struct{ Type string }

func (e *ContentError) Error() string {
	return fmt.Sprintf("a message has %s; send text, pictures (image_url, input_image, image) or documents (file, input_file, document)", e.Type)
}

// part is a part of a message in any of the protocols.
type part struct {
	Type    string  `json:"type"`
	Text    *string `json:"text"`
	Refusal *string `json:"refusal"`

	Source *struct {
		Type    string  `json:"type"`
		Data    string  `json:"data"`
		Content Content `json:"content"`
	} `json:"source"` // of a picture or document in Messages
}

// read returns the text of a part, or the kind of an attachment; neither for a repeated thought of a
// model.
func (p part) read() (text *string, attached string, err error) {
	source := ""
	if p.Source != nil {
		source = p.Source.Type
	}
	switch kind := strings.TrimPrefix(p.Type, "input_"); {
	case kind == "thinking", kind == "redacted_thinking", kind == "reasoning":
		return nil, "", nil
	case p.Text != nil:
		return p.Text, "", nil
	case p.Refusal != nil:
		return p.Refusal, "", nil
	case source == "text":
		return &p.Source.Data, "", nil
	case source == "content":
		return &p.Source.Content.Text, "", nil
	case kind == "image_url", kind == "image" && (source == "" || source == "base64" || source == "url"):
		return nil, "image", nil
	case kind == "file", kind == "document" && (source == "base64" || source == "url"):
		return nil, "document", nil
	}
	return nil, "", &ContentError{Type: fmt.Sprintf("a part of the type %.40q", strings.TrimSpace(p.Type+" "+source))}
}

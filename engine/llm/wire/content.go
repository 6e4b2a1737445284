package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
)

// Content is the content of a message: its texts, joined by line breaks, and its attachments.
type Content struct {
	Text        string
	Attachments []Attachment
}

// Attachment is a picture or a document in a message.
type Attachment struct {
	Kind string // KindImage or KindDocument
	Name string // of a document; may be empty
	Data string // content in base64; empty if the message has only an address
}

// Kinds of attachments.
const (
	KindImage    = "image"
	KindDocument = "document"
)

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
		if attached != nil {
			c.Attachments = append(c.Attachments, *attached)
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

	ImageURL json.RawMessage `json:"image_url"` // {url} in Chat Completions, a text in Responses

	File  *file  `json:"file"` // in Chat Completions
	file         // in Responses
	Title string `json:"title"` // of a document in Messages

	Source *struct {
		Type    string  `json:"type"`
		Data    string  `json:"data"`
		Content Content `json:"content"`
	} `json:"source"` // of a picture or document in Messages
}

// file is a document; its data is a data URL.
type file struct {
	Filename string `json:"filename"`
	FileData string `json:"file_data"`
}

// read returns the text of a part, or its attachment; neither for a repeated thought of a
// model.
func (p part) read() (text *string, attached *Attachment, err error) {
	source, data := "", p.imageData()
	document := p.file
	if p.File != nil {
		document = *p.File
	}
	if document.FileData != "" {
		data = cmp.Or(dataOf(document.FileData), document.FileData) // some clients send base64 alone
	}
	if p.Source != nil {
		source, data = p.Source.Type, p.Source.Data
	}
	switch kind := strings.TrimPrefix(p.Type, "input_"); {
	case kind == "thinking", kind == "redacted_thinking", kind == "reasoning":
		return nil, nil, nil
	case p.Text != nil:
		return p.Text, nil, nil
	case p.Refusal != nil:
		return p.Refusal, nil, nil
	case source == "text":
		return &p.Source.Data, nil, nil
	case source == "content":
		return &p.Source.Content.Text, nil, nil
	case kind == "image_url", kind == "image" && (source == "" || source == "base64" || source == "url"):
		return nil, &Attachment{Kind: KindImage, Data: data}, nil
	case kind == "file", kind == "document" && (source == "base64" || source == "url"):
		return nil, &Attachment{Kind: KindDocument, Name: cmp.Or(document.Filename, p.Title), Data: data}, nil
	}
	return nil, nil, &ContentError{Type: fmt.Sprintf("a part of the type %.40q", strings.TrimSpace(p.Type+" "+source))}
}

// imageData returns the content of a picture's data URL.
func (p part) imageData() string {
	var url string
	if json.Unmarshal(p.ImageURL, &url) != nil {
		var in struct {
			URL string `json:"url"`
		}
		_ = json.Unmarshal(p.ImageURL, &in) // a picture without an address has no data
		url = in.URL
	}
	return dataOf(url)
}

// dataOf returns the base64 of a data URL, or "" for another address.
func dataOf(url string) string {
	rest, isData := strings.CutPrefix(url, "data:")
	if _, data, encoded := strings.Cut(rest, ";base64,"); isData && encoded {
		return data
	}
	return ""
}

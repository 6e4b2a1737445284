package wire

import (
	"bytes"
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
	Kind      string // KindImage or KindDocument
	MediaType string // such as image/png; empty if unknown
	Name      string // file name; may be empty
	Data      string // content in base64; empty with URL
	URL       string // address of the content
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

	File     *file  `json:"file"` // Chat Completions
	FileData string `json:"file_data"`
	FileName string `json:"filename"`
	FileURL  string `json:"file_url"`

	Source *source `json:"source"` // Messages
	Title  string  `json:"title"`
}

type file struct {
	Name string `json:"filename"`
	Data string `json:"file_data"`
}

// source is the content of a picture or document in Messages.
type source struct {
	Type      string          `json:"type"`
	MediaType string          `json:"media_type"`
	Data      string          `json:"data"`
	URL       string          `json:"url"`
	Content   json.RawMessage `json:"content"`
}

// read returns the text or the attachment of a part; neither for a repeated thought of a
// model.
func (p part) read() (text *string, attached *Attachment, err error) {
	switch {
	case p.Type == "thinking", p.Type == "redacted_thinking", p.Type == "reasoning":
		return nil, nil, nil
	case p.Text != nil:
		return p.Text, nil, nil
	case p.Refusal != nil:
		return p.Refusal, nil, nil
	case p.Type == "image_url", p.Type == "input_image":
		return p.readImage()
	case p.File != nil:
		a := attach(KindDocument, p.File.Data)
		a.Name = p.File.Name
		return nil, a, nil
	case p.FileData != "", p.FileURL != "":
		a := attach(KindDocument, p.FileData+p.FileURL)
		a.Name = p.FileName
		return nil, a, nil
	case p.Source != nil && (p.Type == KindImage || p.Type == KindDocument):
		return p.readSource()
	}
	return nil, nil, &ContentError{Type: fmt.Sprintf("a part of the type %.40q", p.Type)}
}

func (p part) readImage() (text *string, attached *Attachment, err error) {
	var url string
	if json.Unmarshal(p.ImageURL, &url) != nil {
		var in struct {
			URL string `json:"url"`
		}
		if json.Unmarshal(p.ImageURL, &in) != nil || in.URL == "" {
			return nil, nil, &ContentError{Type: "a picture without a url"}
		}
		url = in.URL
	}
	return nil, attach(KindImage, url), nil
}

func (p part) readSource() (text *string, attached *Attachment, err error) {
	switch s := p.Source; s.Type {
	case "text":
		return &s.Data, nil, nil
	case "content":
		var inner Content
		if err := json.Unmarshal(s.Content, &inner); err != nil {
			return nil, nil, err
		}
		return &inner.Text, nil, nil
	case "base64":
		return nil, &Attachment{Kind: p.Type, MediaType: s.MediaType, Data: s.Data, Name: p.Title}, nil
	case "url":
		return nil, &Attachment{Kind: p.Type, URL: s.URL, Name: p.Title}, nil
	default:
		return nil, nil, &ContentError{Type: fmt.Sprintf("a source of the type %.40q", s.Type)}
	}
}

// attach returns the attachment at an address, which may be a data URL, or with content in base64.
func attach(kind, from string) *Attachment {
	a := &Attachment{Kind: kind}
	rest, isData := strings.CutPrefix(from, "data:")
	head, data, encoded := strings.Cut(rest, ";base64,")
	switch {
	case isData && encoded:
		a.MediaType, a.Data = head, data
	case strings.Contains(from, "://"):
		a.URL = from
	default:
		a.Data = from
	}
	return a
}

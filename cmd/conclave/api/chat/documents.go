package chat

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"conclave/activities/sandbox"
	"conclave/cmd/conclave/run/inputs"
	"conclave/engine/files/artifact"
	"conclave/engine/llm/wire"
	"conclave/engine/text"
)

// readDocuments adds the text of documents to their messages, which keep the pictures.
func (h *Handler) readDocuments(ctx context.Context, messages []message) error {
	left := artifact.MaxPictureBytes
	for i := range messages {
		var pictures []wire.Attachment
		for _, a := range messages[i].Attachments {
			if a.Kind == wire.KindImage {
				pictures = append(pictures, a)
				continue
			}
			name := cmp.Or(text.OneLine(a.Name), "document")
			data, err := base64.StdEncoding.DecodeString(a.Data)
			switch left -= len(data); {
			case a.Data == "" || err != nil:
				return invalidParam("messages", "the document %.80q of message %d is no data URL and no base64; nothing is fetched from an address or a store, so send its bytes", name, i+1)
			case left < 0:
				return invalidParam("messages", "the documents have more than %d MB; send the parts that count", artifact.MaxPictureBytes>>20)
			}
			content, err := h.documentText(ctx, data)
			if fault, isFault := errors.AsType[*sandbox.DocumentError](err); isFault {
				return invalidParam("messages", "the document %.80q of message %d cannot be read: %s", name, i+1, fault.Reason)
			}
			if err != nil {
				return err
			}
			messages[i].Text = strings.TrimSpace(fmt.Sprintf("%s\n\n[the document %s begins]\n%s\n[the document %[2]s ends]",
				messages[i].Text, name, strings.TrimSpace(content)))
		}
		messages[i].Attachments = pictures
	}
	return nil
}

// documentText returns the text of a PDF, or a document that is text. Two documents are read at a time.
func (h *Handler) documentText(ctx context.Context, data []byte) (string, error) {
	switch {
	case utf8.Valid(data) && !bytes.ContainsRune(data, 0) && !sandbox.IsPDF(data):
		return string(data), nil
	case !sandbox.IsPDF(data):
		return "", &sandbox.DocumentError{Reason: "it is neither a PDF nor text; send its text"}
	}
	select {
	case h.documents <- struct{}{}:
		defer func() { <-h.documents }()
		return sandbox.ReadPDF(ctx, bytes.NewReader(data))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// storePictures stores the pictures of the query, the last user message. Those of earlier ones were seen then.
func (h *Handler) storePictures(ctx context.Context, messages []message) ([]artifact.Picture, error) {
	var files []inputs.File
	for _, m := range slices.Backward(messages) {
		if m.role != "user" {
			continue
		}
		for i, a := range m.Attachments {
			data, err := base64.StdEncoding.DecodeString(a.Data)
			if a.Data == "" || err != nil {
				return nil, invalidParam("messages", "picture %d of the last user message is no data URL and no base64; nothing is fetched from an address, so send its bytes", i+1)
			}
			files = append(files, inputs.File{Name: fmt.Sprintf("picture-%d", i+1), Data: data})
		}
		break
	}
	return h.desk.StorePictures(ctx, files)
}

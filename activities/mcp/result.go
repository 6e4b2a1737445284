package mcp

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"conclave/engine/llm"
	"conclave/engine/text"
)

// maxLeaves bounds the number of values of a structured result that are searched for in its text.
const maxLeaves = 200

type output struct {
	parts  []string
	images []llm.Image
	failed bool
}

func (o *output) addPart(format string, args ...any) {
	o.parts = append(o.parts, fmt.Sprintf(format, args...))
}

func toOutput(result *sdk.CallToolResult) *output {
	o := &output{}
	for _, content := range result.Content {
		o.addContent(content)
	}
	if s := result.StructuredContent; s != nil && !repeatsStructure(result.Content, s) {
		if encoded, err := json.Marshal(s); err == nil {
			o.parts = append(o.parts, string(encoded))
		}
	}
	if result.NeedsInput() {
		o.addPart("the tool asks for input from a person; no person is available")
		result.IsError = true
	}
	if len(o.parts) == 0 {
		o.addPart("(the tool returned nothing)")
	}
	if o.failed = result.IsError; o.failed {
		o.parts[0] = "error: " + o.parts[0]
	}
	return o
}

func (o *output) addContent(content sdk.Content) {
	switch c := content.(type) {
	case *sdk.TextContent:
		o.parts = append(o.parts, strings.ToValidUTF8(c.Text, "\uFFFD"))
	case *sdk.ImageContent:
		o.addImage(c.Data, c.MIMEType)
	case *sdk.AudioContent:
		o.addPart("[audio (%s, %s) is not played]", shortLabel(c.MIMEType), formatSize(len(c.Data)))
	case *sdk.ResourceLink:
		about := []string{shortLabel(c.Name)}
		for _, more := range []string{c.MIMEType, c.Description} {
			if more != "" {
				about = append(about, shortLabel(more))
			}
		}
		o.addPart("[link to a resource: %s (%s)]", shortLabel(c.URI), strings.Join(about, "; "))
	case *sdk.EmbeddedResource:
		o.addResource(c.Resource)
	default:
		o.addPart("[content of type %T is not shown]", content)
	}
}

func (o *output) addResource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
		o.addPart("[an empty resource]")
	case r.Blob != nil:
		o.addPart("[resource %s (%s, %s) is not shown]", shortLabel(r.URI), shortLabel(r.MIMEType), formatSize(len(r.Blob)))
	default:
		o.addPart("[resource %s]\n%s", shortLabel(r.URI), strings.ToValidUTF8(r.Text, "\uFFFD"))
	}
}

// maxImages bounds the number of images in the result of one call.
const maxImages = 4

// addImage adds an image, whose format it detects from the bytes, or the reason for omitting it.
func (o *output) addImage(data []byte, claimed string) {
	shown := llm.Image{Data: data}
	shown.MediaType = shown.Format()
	err := shown.Check()
	if err == nil && len(o.images) == maxImages {
		err = fmt.Errorf("a call can show %d", maxImages)
	}
	if err != nil {
		o.addPart("[an image (%s, %s) is not shown: %v]", shortLabel(claimed), formatSize(len(data)), err)
		return
	}
	o.images = append(o.images, shown)
	o.addPart("[image %d: %s, %s]", len(o.images), shown.MediaType, formatSize(len(data)))
}

// repeatsStructure reports whether the text of a result contains its structured part, either as JSON or as
// single values.
func repeatsStructure(contents []sdk.Content, structured any) bool {
	var all strings.Builder
	for _, content := range contents {
		t, ok := content.(*sdk.TextContent)
		if !ok {
			continue
		}
		var value any
		if json.Unmarshal([]byte(t.Text), &value) == nil && reflect.DeepEqual(value, structured) {
			return true
		}
		all.WriteString(t.Text)
		all.WriteByte('\n')
	}
	values := collectLeaves(structured, nil)
	return len(values) > 0 && len(values) <= maxLeaves && !slices.ContainsFunc(values, func(leaf string) bool {
		return !strings.Contains(all.String(), leaf)
	})
}

func collectLeaves(value any, found []string) []string {
	if len(found) > maxLeaves {
		return found
	}
	switch v := value.(type) {
	case string:
		found = append(found, v)
	case float64:
		if encoded, err := json.Marshal(v); err == nil {
			found = append(found, string(encoded))
		}
	case []any:
		for _, item := range v {
			found = collectLeaves(item, found)
		}
	case map[string]any:
		for _, item := range v {
			found = collectLeaves(item, found)
		}
	}
	return found
}

func shortLabel(s string) string {
	return text.Truncate(text.OneLine(text.Terminal(s)), 500)
}

func formatSize(n int) string { return text.Size(int64(n)) }

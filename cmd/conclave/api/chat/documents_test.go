package chat

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/test/callers"
	"conclave/engine/llm"
	sessionflow "conclave/workflows/session"
)

// A document is read where it stands, in every protocol and also in an earlier turn.
func TestComplete_documents(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../../../activities/sandbox/testdata/browser.pdf")
	require.NoError(t, err)
	pdf, plain := base64.StdEncoding.EncodeToString(content), base64.StdEncoding.EncodeToString([]byte("Only text."))
	for path, parts := range map[string][2]string{
		"/v1/chat/completions": {
			`{"type":"file","file":{"filename":"q3.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}}`,
			`{"type":"file","file":{"filename":"a.txt","file_data":"data:text/plain;base64,` + plain + `"}}`,
		},
		"/v1/responses": {
			`{"type":"input_file","filename":"q3.pdf","file_data":"data:application/pdf;base64,` + pdf + `"}`,
			`{"type":"input_file","filename":"a.txt","file_data":"` + plain + `"}`,
		},
		"/v1/messages": {
			`{"type":"document","title":"q3.pdf","source":{"type":"base64","media_type":"application/pdf","data":"` + pdf + `"}}`,
			`{"type":"document","title":"a.txt","source":{"type":"base64","media_type":"text/plain","data":"` + plain + `"}}`,
		},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, callers.Alice, false)
			asked := make(chan sessionflow.Input, 1)
			go func() {
				begun := s.played.Begun(t)
				asked <- begun.Input
				begun.Decide("1,234", llm.Usage{})
			}()
			list, text := "messages", "text"
			if path == "/v1/responses" {
				list, text = "input", "input_text"
			}
			w := s.send(t.Context(), http.MethodPost, path, fmt.Sprintf(`{"model":"conclave/reviewers","max_tokens":99,%q:[
				{"role":"user","content":[{"type":%q,"text":"Keep it."},%s]},{"role":"assistant","content":"Kept."},
				{"role":"user","content":[%s,{"type":%[2]q,"text":"Sales of the north?"}]}]}`, list, text, parts[1], parts[0]))
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			input := <-asked
			require.Contains(t, input.Query, "Sales of the north?\n\n[the document q3.pdf begins]\n[page 1]\nQuarterly report\n")
			require.Contains(t, input.Query, "\nNorth 1,234\n")
			require.Equal(t, "Keep it.\n\n[the document a.txt begins]\nOnly text.\n[the document a.txt ends]", input.History[0].Query)
		})
	}
}

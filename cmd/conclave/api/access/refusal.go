package access

import (
	"encoding/json"
	"net/http"
	"strings"
)

// refusal is the reason why a request is not admitted.
type refusal struct {
	status        int
	code, message string
}

// writeTo sends the refusal: to programs as an error in the form of OpenAI's API, to
// browsers as a line of text with a prompt for the password.
func (f *refusal) writeTo(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close") // else net/http waits for the body before it replies
	}
	switch f.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="conclave: any name, the key as password", charset="UTF-8"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	}
	if strings.HasPrefix(r.URL.Path+"/", "/v1/") || strings.HasPrefix(r.URL.Path, "/mcp") {
		kind := "invalid_request_error"
		if f.status == http.StatusTooManyRequests {
			kind = "rate_limit_error"
		}
		WriteError(w, f.status, kind, f.code, "", f.message)
		return
	}
	http.Error(w, f.message, f.status)
}

// WriteError answers with an error in the form of OpenAI's API. An empty code or param is null.
func WriteError(w http.ResponseWriter, status int, kind, code, param, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(ErrorJSON(kind, code, param, message)) // the client may be gone
}

// ErrorJSON returns the body of WriteError; streams send the same body as an event.
func ErrorJSON(kind, code, param, message string) []byte {
	body := struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}{}
	body.Error.Message, body.Error.Type = message, kind
	body.Error.Param, body.Error.Code = orNull(param), orNull(code)
	data, _ := json.Marshal(body) // encoding of strings cannot fail
	return data
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

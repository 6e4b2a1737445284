package serve

import (
	"errors"
	"net/http"

	"conclave/cmd/conclave/access"
	"conclave/cmd/conclave/desk"
	"conclave/workflows/drive"
)

// ownPages limits the holder of a key to the sessions started with the key, as in the API and
// the tools. Requests that start model calls are also limited by the key's budget. Without
// keys the pages show all runs.
func ownPages(d *desk.Desk, pages http.Handler) http.Handler {
	session := func(w http.ResponseWriter, r *http.Request) {
		by, id := access.From(r.Context()), r.PathValue("id")
		_, err := d.Find(r.Context(), by, id)
		if err == nil && r.Method == http.MethodPost && r.PathValue("rest") == drive.RetrySignal {
			err = d.ChargeRetry(r.Context(), by, id)
		}
		if err != nil {
			http.Error(w, err.Error(), statusOf(err))
			return
		}
		pages.ServeHTTP(w, r)
	}
	own := http.NewServeMux()
	own.Handle("/{$}", pages) // lists the caller's sessions alone
	own.HandleFunc("/sessions/{id}", session)
	own.HandleFunc("/sessions/{id}/{rest...}", session)
	own.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a key shows the sessions that it has started, and no other page", http.StatusNotFound)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.From(r.Context()).Name == "" {
			pages.ServeHTTP(w, r)
			return
		}
		own.ServeHTTP(w, r)
	})
}

// statusOf returns the HTTP status for a refusal by a desk.
func statusOf(err error) int {
	if refused, ok := errors.AsType[*desk.Refusal](err); ok {
		return refused.Status
	}
	return http.StatusBadGateway
}

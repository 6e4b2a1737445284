package worker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"conclave/workflows/drive"
)

const (
	// attributesAge is how long the search attributes of a namespace are cached.
	attributesAge = time.Minute

	// attributesTimeout bounds the request to the server. A run starts without search attributes
	// rather than late.
	attributesTimeout = 3 * time.Second
)

// attributes caches which of conclave's search attributes exist in each namespace.
type attributes struct {
	client client.Client
	log    *slog.Logger

	mu    sync.Mutex
	known map[string]registered // registered attributes by namespace
}

// registered is the result of one request to the server.
type registered struct {
	names []string
	at    time.Time
}

// registered returns the search attributes that exist in the namespace of ctx's activity. It
// returns none if the server does not list them. It logs a warning about missing ones once.
func (a *attributes) registered(ctx context.Context) []string {
	namespace := activity.GetInfo(ctx).Namespace
	a.mu.Lock()
	defer a.mu.Unlock()
	known, asked := a.known[namespace]
	if asked && time.Since(known.at) < attributesAge {
		return known.names
	}
	asking, cancel := context.WithTimeout(ctx, attributesTimeout)
	defer cancel()
	listed, err := a.client.OperatorService().ListSearchAttributes(asking, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	names := []string{}
	for name, kind := range drive.Attributes() {
		if have, ok := listed.GetCustomAttributes()[name]; ok && have == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	switch {
	case asked:
	case err != nil:
		a.log.Warn("runs are not indexed: the server does not list its search attributes", "namespace", namespace, "error", err)
	case len(names) < len(drive.Attributes()):
		a.log.Warn("runs are not indexed by all search attributes; register the missing ones: "+createCommand(namespace, names), "namespace", namespace)
	}
	a.known[namespace] = registered{names: names, at: time.Now()}
	return names
}

// createCommand returns the command that registers the missing search attributes. The temporal CLI
// pairs names and types by their order.
func createCommand(namespace string, have []string) string {
	command := "temporal operator search-attribute create --namespace " + namespace
	all := drive.Attributes()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !slices.Contains(have, name) {
			command += " --name " + name + " --type " + all[name].String()
		}
	}
	return command
}

// Package prices has the list prices and context windows of models at the
// providers' own addresses, as of a given day.
//
// They are a fallback. The cost that a server reports and the operator's
// configuration take precedence (conclave/worker); a model in neither and not in the
// table has an unknown price, never a price of zero. The table holds list prices of
// plain calls: no discounts for batches, no surcharges for regions or for writing to
// a cache. It is table.json; its figures are facts from the providers' price lists, as
// the MIT-licensed genai-prices collects them.
package prices

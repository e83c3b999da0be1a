// Builds pause, the process that holds a pod's namespaces. It needs nothing but Go itself.
module butler.butlerlabs.dev/deps/pause

go 1.26.0

package backendtest

var Watched = watched

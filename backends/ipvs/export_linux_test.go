package ipvs

const RouteProtocol = routeProtocol

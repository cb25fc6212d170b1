"""Load profiles of gas and electricity supply points. German field names are the wire's own."""

from msgspec import UNSET, UnsetType

from schemas.base import Moment, Text, Wire


class GasSupplyPointLoadProfile(Wire, frozen=True, kw_only=True):
    valid_from: Moment
    valid_to: Moment | None = None
    tum_kundenwert: Text = ""
    jahresmenge_kwh: Text = ""
    marktgebiet: Text = ""
    profilname: Text = ""
    bilanzierungsverfahren: Text = ""
    druckebene: Text = ""
    gas_quality: Text = ""
    prognosegrundlage: Text = ""
    fallgruppenzuordnung: Text = ""
    netznutzungsvertrag_type: Text = ""
    netznutzungszahlung: Text = ""
    netznutzungsabrechnungsvariante: Text = ""
    tagesparameter_type: Text = ""
    tagesparameter_location: Text = ""
    tagesparameter_provider: Text = ""
    bilanzkreis: Text = ""


class ElectricitySupplyPointLoadProfile(Wire, frozen=True, kw_only=True):
    valid_from: Moment
    valid_to: Moment | None = None
    smgw_wahlrecht: bool | UnsetType = UNSET
    bilanzierungsgebiet: Text = ""
    regelzone: Text = ""
    aggregationsverantwortung: Text = ""
    lieferrichtung: Text = ""
    prognosegrundlage_werte_profile: Text = ""
    prognosegrundlage_slp_tlp: Text = ""
    slp_profilname: Text = ""
    slp_bilanzierungsverfahren: Text = ""
    slp_jvp_kwh: Text = ""
    tlp_profilname: Text = ""
    tlp_bilanzierungsverfahren: Text = ""
    tlp_profilschar: Text = ""
    tlp_jvp_spezifische_arbeit_265_kwhk: Text = ""
    tlp_jvp_angepasste_elektrische_arbeit_z08_kwh: Text = ""
    tlp_klima_temperatur_typ: Text = ""
    tlp_klima_temperatur_kennzeichnung: Text = ""
    tlp_klima_temperatur_codeliste: Text = ""
    tlp_klima_temperatur_codepflege: Text = ""
    smgw_wahlrecht_grund_ablehnung: Text = ""
    summenzeitreihentyp: Text = ""
    bilanzkreis: Text = ""
    spannungsebene: Text = ""
    umspannung: Text = ""
    abwicklungsmodell: Text = ""
